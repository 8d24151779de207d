"""One module a format, each with one function `render(matrix) -> str`."""
