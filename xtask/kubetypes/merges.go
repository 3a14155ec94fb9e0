package main

import (
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	// Only so that the module whose source is read below stays in go.mod.
	_ "k8s.io/client-go/pkg/version"
	"sigs.k8s.io/yaml"
)

// merges is the structured-merge-diff schema of every type, by its OpenAPI name.
type merges map[string]schemaType

type schemaType struct {
	Name      string      `json:"name"`
	Map       *schemaMap  `json:"map"`
	List      *schemaList `json:"list"`
	NamedType string      `json:"namedType"`
	// Set where a field overrides what its named type says.
	ElementRelationship string `json:"elementRelationship"`
}

type schemaMap struct {
	Fields              []schemaField `json:"fields"`
	ElementRelationship string        `json:"elementRelationship"`
}

type schemaList struct {
	ElementType         schemaType `json:"elementType"`
	ElementRelationship string     `json:"elementRelationship"`
	Keys                []string   `json:"keys"`
}

type schemaField struct {
	Name    string          `json:"name"`
	Type    schemaType      `json:"type"`
	Default json.RawMessage `json:"default"`
}

// readMerges takes the schema out of the source text, since the packages that hold it are internal.
func readMerges() merges {
	all := merges{}
	all.read("k8s.io/client-go", "applyconfigurations/internal/internal.go")
	all.read("k8s.io/apiextensions-apiserver", "pkg/client/applyconfiguration/internal/internal.go")
	return all
}

func (m merges) read(module, file string) {
	directory, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	must(err)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(directory)), file))
	must(err)
	_, text, found := strings.Cut(string(source), "typed.YAMLObject(`")
	text, _, closed := strings.Cut(text, "`)")
	if !found || !closed {
		log.Fatalf("%s: no schema in %s", module, file)
	}
	var schema struct {
		Types []schemaType `json:"types"`
	}
	must(yaml.Unmarshal([]byte(text), &schema))
	for _, t := range schema.Types {
		if _, known := m[t.Name]; !known {
			m[t.Name] = t
		}
	}
}

func schemaName(of reflect.Type) string {
	path := strings.Split(of.PkgPath(), "/")
	host := strings.Split(path[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(host, path[1:]...), ".") + "." + of.Name()
}

func (m merges) structIsAtomic(of reflect.Type) bool {
	t, known := m[schemaName(of)]
	return known && t.Map != nil && t.Map.ElementRelationship == "atomic"
}

// flags are the server-side apply flags of a field of root, where they differ from the default of its type.
func (m merges) flags(root reflect.Type, name string, of reflect.Type) []string {
	owner, known := m[schemaName(root)]
	if !known || owner.Map == nil {
		return nil
	}
	for _, f := range owner.Map.Fields {
		if f.Name == name {
			return m.fieldFlags(f, of)
		}
	}
	if root.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1" {
		log.Printf("%v has no merge schema for %s", root, name)
	}
	return nil
}

func (m merges) fieldFlags(f schemaField, of reflect.Type) []string {
	switch {
	case f.Type.List != nil && f.Type.List.ElementRelationship == "associative":
		return m.associativeFlags(f.Type.List)
	case f.Type.Map != nil && f.Type.Map.ElementRelationship == "atomic":
		return []string{"atomic"}
	case f.Type.ElementRelationship == "atomic":
		return []string{"atomic"}
	}
	return nil
}

func (m merges) associativeFlags(list *schemaList) []string {
	if len(list.Keys) == 0 {
		return []string{"set"}
	}
	var keys []string
	for _, key := range list.Keys {
		if value := m.defaultOf(list.ElementType.NamedType, key); value != "" {
			key += ":" + value
		}
		keys = append(keys, key)
	}
	return []string{"keys=" + strings.Join(keys, ",")}
}

func (m merges) defaultOf(element, key string) string {
	for _, f := range m[element].Map.Fields {
		if f.Name == key && len(f.Default) > 0 && string(f.Default) != "null" {
			return string(f.Default)
		}
	}
	return ""
}
