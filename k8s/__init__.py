"""The Kubernetes manifests, a package so that an installed ps_dqn.launch finds them."""
