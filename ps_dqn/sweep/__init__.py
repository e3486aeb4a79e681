"""Many runs of one experiment: over settings, over seeds, as many at a time as fit."""
