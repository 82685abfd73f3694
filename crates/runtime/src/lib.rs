//! What every role needs of Kubernetes: watches, a write queue, a lease, events, metrics.
