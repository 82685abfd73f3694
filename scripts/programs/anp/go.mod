module causeway.invalid/programs/anp

go 1.25.0

require (
	sigs.k8s.io/network-policy-api v0.1.7 // indirect
)
