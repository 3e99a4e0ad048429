// Package image tests what `make image` makes: that registries, nodes and certification accept it, that
// it is what the Dockerfile makes, and that two builds make the same.
package image
