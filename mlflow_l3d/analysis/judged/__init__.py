"""Judged answers of an application: which luck a score has, whether judges agree, and whether a difference is real."""
