"""What tests share: drivers, environments and networks of their own, programs they start."""
