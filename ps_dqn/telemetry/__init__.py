"""What is measured, and who is told: files, people, Prometheus."""
