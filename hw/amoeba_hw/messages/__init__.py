"""Messages: which one meets which receive."""
