"""The pages of the console. Each module has functions that make the data of a page, as JSON."""
