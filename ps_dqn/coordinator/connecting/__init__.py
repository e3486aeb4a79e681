"""From addresses to workers that closures can be scheduled on."""
