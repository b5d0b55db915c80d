"""Services for jobs: ``compute_service``."""
