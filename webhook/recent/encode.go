package recent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// maxEncoded leaves room for the other annotations of an object, which together may have
	// 256 KiB (TotalAnnotationSizeLimitB in k8s.io/apimachinery, pkg/api/validation/objectmeta.go).
	maxEncoded = 240 << 10
	// maxDecoded bounds what is unpacked: MaxEntries objects of 128 KiB, or one as large as an
	// API server takes.
	maxDecoded = 8 << 20
	// format is the version of an encodedEntry.
	format = 1
)

// An encodedEntry is an entry in the list, which is a JSON array, packed with gzip and in base64.
// Without an edit it stands for one that is too large for the list.
type encodedEntry struct {
	Format int           `json:"v"`
	ID     string        `json:"id"`
	By     string        `json:"by"`
	Edit   *mirrors.Edit `json:"edit,omitempty"`
}

// encode writes entries. Those that have no replica yet get instance as theirs, and the
// last of these is left without its edit if there is no room for that.
func encode(entries []entry, instance string) (string, error) {
	if slices.ContainsFunc(entries, func(en entry) bool { return en.wholeList }) {
		return "", fmt.Errorf("%w: the list cannot be read", ErrChanged)
	}
	text, err := pack(entries, instance, true)
	if err == nil && len(text) > maxEncoded {
		text, err = pack(entries, instance, false)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("writing the recent edits: %w", err)
	case len(text) > maxEncoded, len(entries) > MaxEntries:
		return "", fmt.Errorf("%w: %d", errFull, len(entries))
	}
	return text, nil
}

func pack(entries []entry, instance string, whole bool) (string, error) {
	list := []json.RawMessage{}
	for i, en := range entries {
		raw := en.raw
		if raw == nil {
			e := encodedEntry{Format: format, ID: en.id, By: instance}
			if whole || i < len(entries)-1 {
				e.Edit = &en.edit
			}
			var err error
			if raw, err = json.Marshal(e); err != nil {
				return "", err
			}
		}
		list = append(list, raw)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	return zip(data)
}

func zip(data []byte) (string, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// decode reads what encode wrote. What cannot be read is an entry that is unreadable, and has
// an id by which it is known as long as it stays as it is: it may be a list by another version
// of the guard, and must neither be taken for an empty one nor stay in the way for good.
func decode(text string) []entry {
	if text == "" {
		return nil
	}
	list, err := unpack(text)
	if err != nil {
		return []entry{{id: idOf([]byte(text)), unreadable: "the list: " + err.Error(), wholeList: true}}
	}
	var entries []entry
	for _, raw := range list {
		entries = append(entries, decodeEntry(raw))
	}
	return entries
}

func unpack(text string) (list []json.RawMessage, err error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxDecoded+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDecoded {
		return nil, fmt.Errorf("more than %d bytes", maxDecoded)
	}
	return list, json.Unmarshal(data, &list)
}

func decodeEntry(raw json.RawMessage) entry {
	var e encodedEntry
	en := entry{raw: raw}
	err := json.Unmarshal(raw, &e)
	switch {
	case err != nil:
		en.unreadable = err.Error()
	case e.Format != format:
		en.unreadable = fmt.Sprintf("it has format %d", e.Format)
	case e.Edit == nil:
		en.unreadable = "it is too large to be shared"
	default:
		en.edit = *e.Edit
	}
	if en.id, en.by = e.ID, e.By; en.id == "" {
		en.id = idOf(raw)
	}
	return en
}

// idOf returns the id of what has none that can be read.
func idOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
