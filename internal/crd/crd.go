// Package crd says what an API server with OpenShift's CustomResourceDefinitions would
// object to in an object, before the object is sent and without a cluster. A misspelled
// policy has no effect, and a pipeline must not be green for it.
//
// The judgment is made by the API server's own code (k8s.io/apiextensions-apiserver),
// with the definitions in folder manifests. These are copies of those in the module
// github.com/openshift/api that go.mod names, since go:embed does not reach into
// another module; a test compares them, and writes them with -update. None of them has
// variants by feature set in that version; if one gets them, use that of the set
// Default.
//
// An update is judged beside the object that it replaces, as an API server does since Kubernetes 1.30:
// unchanged fields that were invalid before may stay.
package crd

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/internal/convert"
)

//go:embed manifests
var manifests embed.FS

// files are the definitions by their kinds. To add a kind, add a line and run the tests
// with -update.
var files = map[schema.GroupVersionKind]string{
	config("ClusterImagePolicy"):   "config/v1/clusterimagepolicies",
	config("Image"):                "config/v1/images",
	config("ImageDigestMirrorSet"): "config/v1/imagedigestmirrorsets",
	config("ImagePolicy"):          "config/v1/imagepolicies",
	config("ImageTagMirrorSet"):    "config/v1/imagetagmirrorsets",
	{Group: "operator.openshift.io", Version: "v1alpha1", Kind: "ImageContentSourcePolicy"}: "operator/v1alpha1/imagecontentsourcepolicies",
	{Group: "machineconfiguration.openshift.io", Version: "v1", Kind: "PinnedImageSet"}:     "machineconfiguration/v1/pinnedimagesets",
}

func config(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: kind}
}

// Knows reports whether Validate can judge objects of a kind.
func Knows(gvk schema.GroupVersionKind) bool { return files[gvk] != "" }

// Validate returns everything that an API server would object to when the object in data
// (JSON) replaces old, or is created if that is nil, with strict field validation (kubectl's
// default, --validate=strict); nil if it would accept the object. Its kind must be one that Knows
// reports. Each error has the path of the field and its value, if any; they are sorted by path.
func Validate(gvk schema.GroupVersionKind, data, old []byte) field.ErrorList {
	d, err := definitionOf(gvk)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return field.ErrorList{field.Invalid(nil, string(data), err.Error())}
	}
	var before map[string]any
	if old != nil {
		if err := json.Unmarshal(old, &before); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		d.prune(before)
	}
	errs := d.validate(gvk, object, before)
	slices.SortStableFunc(errs, func(a, b *field.Error) int { // schemas are maps
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Error(), b.Error()))
	})
	for _, e := range errs {
		explain(e)
	}
	return errs
}

// A definition is a CustomResourceDefinition as an API server prepares it
// (getOrCreateServingInfoFor in customresource_handler.go).
type definition struct {
	namespaced bool
	hasStatus  bool
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

var (
	definitionsMu sync.Mutex
	definitions   = map[schema.GroupVersionKind]*definition{}
)

// definitionOf prepares a definition when it is first needed: compiling its rules takes
// milliseconds, which other commands save.
func definitionOf(gvk schema.GroupVersionKind) (*definition, error) {
	definitionsMu.Lock()
	defer definitionsMu.Unlock()
	if d := definitions[gvk]; d != nil {
		return d, nil
	}
	d, err := prepare(gvk)
	if err != nil {
		return nil, fmt.Errorf("the definition of %s: %w", gvk.Kind, err)
	}
	definitions[gvk] = d
	return d, nil
}

func prepare(gvk schema.GroupVersionKind) (*definition, error) {
	text, err := manifests.ReadFile(embedded(files[gvk]))
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == gvk.Version && crd.Spec.Names.Kind == gvk.Kind {
			return prepareVersion(crd.Spec, v)
		}
	}
	return nil, fmt.Errorf("no version %s of %s in it", gvk.Version, gvk.Kind)
}

func prepareVersion(spec apiextensionsv1.CustomResourceDefinitionSpec, v apiextensionsv1.CustomResourceDefinitionVersion) (*definition, error) {
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	structural = structural.DeepCopy() // PruneDefaults changes it
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &definition{
		namespaced: spec.Scope == apiextensionsv1.NamespaceScoped,
		hasStatus:  v.Subresources != nil && v.Subresources.Status != nil,
		structural: structural,
		schema:     validator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// embedded returns the path of our copy of the module's definition name.
func embedded(name string) string { return path.Join("manifests", path.Base(name)+".yaml") }

// validate takes the steps of an API server: decoding
// (schemaCoercingDecoder in customresource_handler.go), then the strategy's
// PrepareForCreate and Validate, or PrepareForUpdate and ValidateUpdate where there is an old
// object (pkg/registry/customresource/strategy.go).
func (d *definition) validate(gvk schema.GroupVersionKind, object, old map[string]any) field.ErrorList {
	errs := typeErrors(gvk, object)
	meta, err := d.metadata(object)
	errs = append(errs, err...)
	for _, path := range d.prune(object) {
		errs = append(errs, unknownField(path))
	}
	if meta != nil {
		errs = append(errs, d.metadataErrors(meta)...)
	}
	var (
		wrong   field.ErrorList
		options []cel.Option
		before  any // not a map that is nil
	)
	if old == nil {
		wrong = validation.ValidateCustomResource(nil, object, d.schema)
	} else {
		changes := common.NewCorrelatedObject(object, old, &model.Structural{Structural: d.structural})
		wrong = validation.ValidateCustomResourceUpdate(nil, object, old, d.schema, validation.WithRatcheting(changes))
		options, before = append(options, cel.WithRatcheting(changes)), old
	}
	wrong = append(wrong, objectmeta.Validate(context.Background(), nil, object, d.structural, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, d.structural, old)) == 0 {
		wrong = append(wrong, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	}
	if !blocksRules(wrong) {
		broken, _ := d.rules.Validate(context.Background(), nil, d.structural, object, before, celconfig.RuntimeCELCostBudget, options...)
		wrong = append(wrong, broken...)
	}
	return append(errs, wrong...)
}

// prune reduces an object to the stored part of it, and returns the paths of unknown fields.
func (d *definition) prune(object map[string]any) []string {
	defaulting.Default(object, d.structural)
	unknown := pruning.PruneWithOptions(object, d.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	if d.hasStatus {
		delete(object, "status") // which only the controller writes
	}
	return unknown
}

// typeErrors reports whether object declares the type that it is read as. A field in the wrong
// case ("Kind") does not count.
func typeErrors(gvk schema.GroupVersionKind, object map[string]any) field.ErrorList {
	var errs field.ErrorList
	for name, want := range map[string]string{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind} {
		if object[name] != want {
			errs = append(errs, field.Invalid(field.NewPath(name), object[name], "must be "+want))
		}
	}
	return errs
}

// metadata returns the metadata of object, nil if it cannot be read.
func (d *definition) metadata(object map[string]any) (*metav1.ObjectMeta, field.ErrorList) {
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), object["metadata"], err.Error())}
	}
	errs := convert.Each(unknown, unknownField)
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	return meta, errs
}

// metadataErrors judges metadata after kubectl and the API server have corrected the
// namespace: that of the context if it is missing, none for cluster-scoped kinds (BeforeCreate
// in k8s.io/apiserver, pkg/registry/rest/create.go).
func (d *definition) metadataErrors(meta *metav1.ObjectMeta) field.ErrorList {
	switch {
	case !d.namespaced:
		meta.Namespace = ""
	case meta.Namespace == "":
		meta.Namespace = metav1.NamespaceDefault
	}
	return apivalidation.ValidateObjectMeta(meta, d.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func unknownField(path string) *field.Error {
	return &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field"}
}

// blocksRules reports whether errs keep an API server from evaluating the rules, like
// hasBlockingErr in strategy.go.
func blocksRules(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
