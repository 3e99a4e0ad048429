package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// inventoryOptions are the choices of the command inventory.
type inventoryOptions struct {
	world     world
	output    output
	namespace string
	registry  string
}

func newInventory() *cobra.Command {
	o := inventoryOptions{output: output{format: "table", formats: []string{"table", "json", "yaml", "refs"}}}
	cmd := &cobra.Command{
		Use:   "inventory",
		Short: "List the images that the cluster may have to pull, and who uses them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), streamsOf(cmd))
		},
	}
	o.world.addFlags(cmd.Flags())
	o.output.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "only images with a user in this namespace")
	cmd.Flags().StringVar(&o.registry, "registry", "", "only images of this registry or below this scope (quay.io, quay.io/team)")
	return cmd
}

func (o *inventoryOptions) run(ctx context.Context, io streams) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	w, err := o.world.open(ctx, io)
	if err != nil {
		return err
	}
	defer w.close()
	all, err := w.inventory.Images(ctx)
	if err != nil {
		return err
	}
	var images []policy.Image
	for _, img := range all {
		if o.wants(img) {
			images = append(images, img)
		}
	}
	return o.print(io.out, images)
}

func (o *inventoryOptions) wants(img policy.Image) bool {
	if o.registry != "" && img.Ref != o.registry && !strings.HasPrefix(img.Ref, o.registry+"/") &&
		!strings.HasPrefix(img.Ref, o.registry+":") && !strings.HasPrefix(img.Ref, o.registry+"@") {
		return false
	}
	if o.namespace == "" {
		return true
	}
	for _, u := range img.Users {
		if u.Namespace == o.namespace {
			return true
		}
	}
	return false
}

// inventoryDocument is the list as JSON (kind Inventory).
type inventoryDocument struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Images     []inventoryImage `json:"images"`
}

type inventoryImage struct {
	Image string        `json:"image"`
	Users []review.User `json:"users"`
}

func (o *inventoryOptions) print(w io.Writer, images []policy.Image) error {
	switch o.output.format {
	case "refs":
		for _, img := range images {
			fmt.Fprintln(w, img.Ref)
		}
		return nil
	case "table":
		return printImages(w, images)
	default:
		doc := inventoryDocument{APIVersion: review.APIVersion, Kind: "Inventory", Images: []inventoryImage{}}
		for _, img := range images {
			doc.Images = append(doc.Images, inventoryImage{Image: img.Ref, Users: review.UserDocuments(img)})
		}
		return o.output.write(w, doc)
	}
}

func printImages(w io.Writer, images []policy.Image) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tUSE\tUSERS")
	for _, img := range images {
		fmt.Fprintf(table, "%s\t%s\t%s\n", img.Ref, use(img), policy.Users(img, 2))
	}
	return table.Flush()
}

// use returns the most important use of img.
func use(img policy.Image) policy.Use {
	best := policy.History
	for _, u := range img.Users {
		switch u.Use {
		case policy.Running:
			return policy.Running
		case policy.Referenced:
			best = policy.Referenced
		}
	}
	return best
}
