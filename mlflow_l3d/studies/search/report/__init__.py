"""What people see of a search: its page, plots, tables and sentences."""
