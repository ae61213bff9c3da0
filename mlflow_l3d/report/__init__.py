"""What people see: a table in the terminal, figures, and one HTML file that works offline."""
