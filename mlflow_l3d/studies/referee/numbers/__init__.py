"""The statistics of a referee: what runs vary by, what they say of one candidate, and the path of the champion."""
