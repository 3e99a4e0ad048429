package rollout

// Controller is a controller of pods, as far as it matters how it creates them.
type Controller struct {
	Namespace string
	Owner
	// Parallel is podManagementPolicy Parallel of a StatefulSet. Any other makes a pod only when
	// those of lower ordinals are ready.
	Parallel bool
	// First is the lowest ordinal of a StatefulSet.
	First int32
	// Failure is why a ReplicaSet or ReplicationController could not make its last pod (condition
	// ReplicaFailure), "" if it could; cut.
	Failure string
}
