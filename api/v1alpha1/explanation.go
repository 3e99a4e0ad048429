package v1alpha1

// An Explanation says where nodes pull images from (kind Explanation).
type Explanation struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Images     []Explained `json:"images"` // in the order asked
}

// Explained is one image of an Explanation.
type Explained struct {
	Image  string `json:"image"` // as asked
	Before Route  `json:"before"`
	After  Route  `json:"after"`
	// Consumers are what uses the image; absent where the images of the cluster were not read (explain reads
	// them with --probe and of a dump), or only some of them and none that uses it.
	Consumers []Consumer `json:"users,omitzero"`
	// Notes say for which pods the routes are others.
	Notes []string `json:"notes,omitempty"`
}
