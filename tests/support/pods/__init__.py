"""Runs rendered Kubernetes manifests on this machine, with namespaces in the place of nodes.

What a kubelet, a StatefulSet's and a Job's controller, a headless Service and a network plugin do
for the manifests of this repository, as far as those use it: a manifest that says anything else is
refused and not half obeyed. It needs root, iproute2, iptables and util-linux.
"""
