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
}
