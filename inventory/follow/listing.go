package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// A Listing selects what to read of a collection.
type Listing struct {
	// Path is that of the collection on the API server: "/apis/apps/v1/deployments".
	Path string
	// Name is the one object that is wanted, "" for all.
	Name string
	// NamesOnly leaves out all but the metadata.
	NamesOnly bool
}

const (
	// FirstPageSize is how many objects EachObject asks for at first. It is small, as their
	// size is not known yet.
	FirstPageSize = 50
	// pageBytes is how large the pages after it should be: the API server has a whole page
	// in memory, and so has etcd.
	pageBytes = 1 << 20
)

// namesOnlyJSON asks for metav1.PartialObjectMetadataList
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches).
const namesOnlyJSON = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// EachObject visits the objects of a collection one by one. None is kept: of a page of a
// hundred megabytes, one object is in memory. A list whose continuation has expired begins
// again, once: an object may be visited twice.
func EachObject(ctx context.Context, api rest.Interface, l Listing, visit func(*unstructured.Unstructured)) error {
	limit, token, anew := FirstPageSize, "", false
	for {
		page, err := onePage(ctx, api, l, limit, token, visit)
		if apierrors.IsResourceExpired(err) && token != "" && !anew {
			token, anew = "", true
			continue
		}
		if err != nil {
			return err
		}
		if page.token == "" {
			return nil
		}
		token = page.token
		limit = int(min(DefaultPageSize, max(1, int64(limit)*pageBytes/max(1, page.bytes)))) // which make a page of pageBytes
	}
}

// A listPage holds the metadata of a page.
type listPage struct {
	token string // for the next page, "" for none
	bytes int64
}

func onePage(ctx context.Context, api rest.Interface, l Listing, limit int, token string, visit func(*unstructured.Unstructured)) (listPage, error) {
	ctx, cancel := context.WithTimeout(ctx, ListTimeout)
	defer cancel()
	request := api.Get().AbsPath(l.Path).Param("limit", strconv.Itoa(limit)).SetHeader("Accept", "application/json")
	if token != "" {
		request.Param("continue", token)
	}
	if l.Name != "" {
		request.Param("fieldSelector", "metadata.name="+l.Name)
	}
	if l.NamesOnly {
		request.SetHeader("Accept", namesOnlyJSON)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return listPage{}, err
	}
	defer body.Close()
	counting := &counter{Reader: body}
	next, err := decodeList(counting, visit)
	if err != nil {
		return listPage{}, fmt.Errorf("reading %s: %w", l.Path, err)
	}
	return listPage{next, counting.n}, nil
}

// A counter counts the bytes that are read.
type counter struct {
	io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// decodeList visits the items of a list in JSON, and returns the token for its next page.
func decodeList(r io.Reader, visit func(*unstructured.Unstructured)) (token string, err error) {
	d := json.NewDecoder(r)
	if err := expect(d, json.Delim('{')); err != nil {
		return "", err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}
		switch key {
		case "items":
			err = decodeItems(d, visit)
		case "metadata":
			var meta struct{ Continue string }
			err = d.Decode(&meta)
			token = meta.Continue
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return "", err
		}
	}
	return token, expect(d, json.Delim('}')) // half a page does not count
}

func decodeItems(d *json.Decoder, visit func(*unstructured.Unstructured)) error {
	opening, err := d.Token()
	if err != nil || opening == nil { // null
		return err
	}
	if opening != json.Delim('[') {
		return fmt.Errorf("items is %v, not a list", opening)
	}
	for d.More() {
		var o unstructured.Unstructured
		if err := d.Decode(&o.Object); err != nil {
			return err
		}
		visit(&o)
	}
	return expect(d, json.Delim(']'))
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		return fmt.Errorf("%v instead of %v", got, want)
	}
	return err
}
