"""`python -m reports.schema` writes the schema anew after a change of the record model."""

from __future__ import annotations

from reports.schema import FILE, text
from reports.writing import write_text

if __name__ == "__main__":
    write_text(FILE, text())
    print(FILE)
