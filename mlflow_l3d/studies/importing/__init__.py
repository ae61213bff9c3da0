"""`import`: existing results of other tools become runs that every other command reads."""
