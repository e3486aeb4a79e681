"""An actor task: it has environments and no network, and learners say what it does (SEED)."""
