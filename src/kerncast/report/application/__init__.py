"""Reports of whole applications: where their time goes on each GPU."""
