"""Files of other tools: their results become runs, which every other command reads."""
