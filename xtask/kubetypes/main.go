// Kubetypes writes the table of built-in Kubernetes types that the embedded API server decodes with, and the golden
// files its tests compare against. Everything comes from reflection over the published Go types and from the merge
// schema that client-go carries, so a new Kubernetes minor is a version bump in go.mod and a diff to read.
//
//	go run . ../../crates/apiserver/src/types
package main

import (
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: kubetypes DIRECTORY")
	}
	directory := os.Args[1]
	write(filepath.Join(directory, "table.txt"), renderTable())
	for name, content := range goldens() {
		write(filepath.Join(directory, "testdata", name), content)
	}
}

func write(path string, content []byte) {
	must(os.MkdirAll(filepath.Dir(path), 0o755))
	must(os.WriteFile(path, content, 0o644))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
