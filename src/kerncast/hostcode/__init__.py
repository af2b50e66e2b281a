"""VERB hostcode: a program becomes the launches that it makes."""
