"""The coordinator: schedules closures on the workers, evaluates, saves, shows."""
