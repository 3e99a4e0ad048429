package page

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/api/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
)

// An inventoryRow is an image with its users.
type inventoryRow struct {
	imageRow
	Use   string
	Users string
}

// An inventoryList is a list of images, and the table of registries.
type inventoryList struct {
	rowList
	Registries []registryCount
}

// A registryCount counts the images of a registry by their use.
type registryCount struct {
	Host                                 string
	Images, Running, Referenced, History int
	Bars                                 []bar
}

// WriteInventory writes an inventory as a page.
func WriteInventory(w io.Writer, doc v1alpha1.Inventory, c Context) error {
	doc = cleaned(doc)
	l := layout{Title: "Images in use", Badge: "Inventory", Kind: "note", Context: c}
	l.Sentence = fmt.Sprintf("The cluster may have to pull %s.", text.Count(len(doc.Images), "image"))
	if len(doc.Images) == 0 {
		l.Sentence = "No image was found."
	}
	images := inventoryRows(doc.Images)
	list := inventoryList{rowList: rowList{All: len(images), Whole: c.Whole, Brief: len(images) > manyImages}, Registries: registryCounts(images)}
	var review reviewPage
	for i := range images {
		review.images = append(review.images, images[i].imageRow)
	}
	if list.Filters = review.filters(); len(images) > 0 {
		list.Filters[0].Label = "Use" // which stands where a review has the result
	}
	var err error
	if list.Rows, list.Shown, err = rows("inventory-row.html", images, MaxBytes-6*spare); err != nil {
		return err
	}
	if left := len(images) - list.Shown; left > 0 {
		list.Left = text.Count(left, "image")
	}
	l.Sections, err = sections(
		part{section: section{ID: "registries", Title: "Registries", Note: text.Count(len(list.Registries), "registry host")}, template: "inventory-registries.html", data: list, empty: len(images) == 0},
		part{section: section{ID: "images", Title: "Images", Note: text.Count(len(images), "image")}, template: "inventory.html", data: list, empty: len(images) == 0},
	)
	if err != nil {
		return err
	}
	return l.write(w)
}

// useOrder puts what runs first; useKinds has the kind of each use.
var (
	useOrder = []string{"running", "referenced", "history"}
	useKinds = map[string]string{"running": "good", "referenced": "unknown", "history": "note"}
)

func inventoryRows(images []v1alpha1.InventoryImage) []inventoryRow {
	all := make([]inventoryRow, 0, len(images))
	for i := range images {
		img := &images[i]
		row := inventoryRow{imageRow: imageRow{Image: img.Image, namespaces: namespacesOf(img.Consumers), registries: []string{registryOf(img.Image)}, Brief: len(images) > manyImages}}
		row.Use = useOrder[len(useOrder)-1]
		for _, c := range img.Consumers {
			if slices.Index(useOrder, c.Use) < slices.Index(useOrder, row.Use) {
				row.Use = c.Use
			}
		}
		row.Result, row.Kind = row.Use, useKinds[row.Use]
		named := img.Consumers[:min(len(img.Consumers), 2)]
		row.Users = text.Names(append(consumerNames(named), make([]string, len(img.Consumers)-len(named))...), len(named))
		all = append(all, row)
	}
	return all
}

func registryCounts(images []inventoryRow) []registryCount {
	byHost := map[string]*registryCount{}
	for i := range images {
		host := registryOf(images[i].Image)
		if byHost[host] == nil {
			byHost[host] = &registryCount{Host: host}
		}
		c := byHost[host]
		c.Images++
		switch images[i].Use {
		case "running":
			c.Running++
		case "referenced":
			c.Referenced++
		default:
			c.History++
		}
	}
	var all []registryCount
	for _, host := range sortedKeys(byHost) {
		c := byHost[host]
		c.Bars = bars(c.Images, []int{c.Running, c.Referenced, c.History}, []string{"good", "unknown", "note"})
		all = append(all, *c)
	}
	slices.SortStableFunc(all, func(a, b registryCount) int { return cmp.Compare(b.Images, a.Images) })
	return all[:min(len(all), maxRegistries)]
}
