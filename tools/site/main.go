// Command site makes the manual from the Markdown of this repository: static pages that need no server,
// no network and no script, with a search that works offline where there are scripts. It refuses links
// that lead nowhere.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "../..", "the top folder of the repository")
	out := flag.String("out", "../../dist/manual", "the folder to write, which is emptied first")
	flag.Parse()
	pages, err := build(*root, *out)
	if err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages: %s/index.html\n", pages, *out)
}
