"""Results that exist already, as other tools wrote them, become runs that every other verb reads."""
