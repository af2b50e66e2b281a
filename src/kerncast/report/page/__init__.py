"""Reports as pages: what they are made of, and their forms as one HTML file and as Markdown."""
