"""Files that kerncast writes for people to edit, and what it says of files and packages."""
