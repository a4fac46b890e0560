"""The engine: requests in, completions out. It knows no API's object, flag or entry."""
