package v1alpha1

// An Inventory lists images with their consumers (kind Inventory).
type Inventory struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Release is the release that the cluster is to be updated to, where a guard looks after it.
	Release *NextRelease     `json:"release,omitempty"`
	Images  []InventoryImage `json:"images"`
}

// An InventoryImage is one image of an Inventory.
type InventoryImage struct {
	Image     string     `json:"image"`
	Consumers []Consumer `json:"users"`
}
