"""What operators see of a process: metrics, log lines and the admin port."""
