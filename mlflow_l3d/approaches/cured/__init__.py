"""An approach with a remedy against luck: several trainings behind one result, or other hyperparameters."""
