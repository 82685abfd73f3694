module causeway.invalid/programs/cnp

go 1.25.0

require (
	sigs.k8s.io/network-policy-api v0.2.0 // indirect
)
