package main

import (
	"bytes"
	"fmt"
	"log"
	"reflect"
	"slices"
	"strings"
)

const header = `# The built-in Kubernetes types, written by xtask/kubetypes; do not edit.
#
# A line "kind API_VERSION KIND TYPE" names the type of a kind. A line "type NAME [atomic]" opens a type, the lines
# below it are its fields in the order of their names:
#
#   NUMBER NAME TYPE FLAGS...
#
# NUMBER  protobuf field number; "2.5" is field 5 of the embedded message 2; "-" has none.
# TYPE    a Go type: *T, []T, map[K]T, bytes, a scalar, or the name of a type below or of one with its own encoding
#         (times, quantities, raw JSON ...). "v1.Protocol:string" is a named type and what it stands for. Types print
#         without what is before a "/" in error messages, as Go prints them.
# FLAGS   o                  omitempty
#         z                  omitzero
#         in=NAME            a field of the embedded struct NAME
#         merge, merge=KEY   strategic merge patch merges this list, as a set or by KEY
#         retain             strategic merge patch understands $retainKeys here
#         replace            strategic merge patch replaces this struct whole
#         atomic             server-side apply: one owner for the whole map or struct
#         set                server-side apply: a set of scalars
#         keys=K,K:DEFAULT   server-side apply: a list of structs told apart by these fields
#
# Lists without "set" or "keys" are atomic, maps and structs without "atomic" are granular.
`

// Types whose JSON form is not that of their fields; the server has code for each of them.
var ownEncoding = map[string]bool{
	"meta/v1.Time": true, "meta/v1.MicroTime": true, "meta/v1.FieldsV1": true,
	"resource.Quantity": true, "intstr.IntOrString": true, "runtime.RawExtension": true,
	"apiextensions/v1.JSON": true, "apiextensions/v1.JSONSchemaPropsOrBool": true,
	"apiextensions/v1.JSONSchemaPropsOrArray": true, "apiextensions/v1.JSONSchemaPropsOrStringArray": true,
}

type field struct {
	number, name, expression string
	flags                    []string
}

type table struct {
	schema merges
	types  map[string]reflect.Type
	queue  []reflect.Type
}

func renderTable() []byte {
	t := &table{schema: readMerges(), types: map[string]reflect.Type{}}
	var out bytes.Buffer
	out.WriteString(header)
	for _, g := range groups {
		for _, object := range g.objects {
			kind := reflect.TypeOf(object)
			fmt.Fprintf(&out, "kind %s %s %s\n", g.apiVersion, kind.Name(), t.reference(kind))
		}
	}
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		t.fields(next)
	}
	names := []string{}
	for name := range t.types {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.render(&out, name)
	}
	return out.Bytes()
}

func (t *table) render(out *bytes.Buffer, name string) {
	fmt.Fprintf(out, "type %s", name)
	if t.schema.structIsAtomic(t.types[name]) {
		out.WriteString(" atomic")
	}
	out.WriteString("\n")
	for _, f := range t.fields(t.types[name]) {
		fmt.Fprintln(out, strings.Join(append([]string{f.number, f.name, f.expression}, f.flags...), " "))
	}
}

// fields lists the JSON fields of a struct by name, with those of embedded structs in their place.
func (t *table) fields(of reflect.Type) []field {
	fields := t.collect(of, of, "", "")
	fields = append(fields, extraFields[typeName(of)]...)
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields
}

// KEP-4631 adds this field; no release of the Go types has it yet, so it has no protobuf number.
var extraFields = map[string][]field{
	"core/v1.ServiceSpec": {{"-", "requiredLoadBalancerFeatures", "[]string", []string{"o"}}},
}

func (t *table) collect(root, of reflect.Type, prefix, embedded string) []field {
	var fields []field
	for i := range of.NumField() {
		member := of.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		number := prefix + protobufNumber(of, member)
		if member.Anonymous && name == "" {
			if embedded != "" {
				log.Fatalf("%v: embedding is two levels deep", root)
			}
			fields = append(fields, t.collect(root, member.Type, strings.TrimPrefix(number+".", "-."), member.Name)...)
			continue
		}
		if name == "-" {
			continue
		}
		if strings.HasSuffix(number, "-") || (embedded != "" && prefix == "") {
			number = "-"
		}
		f := field{number: number, name: name, expression: t.expression(member.Type)}
		f.flags = append(jsonFlags(options, embedded), patchFlags(root, member)...)
		f.flags = append(f.flags, t.schema.flags(root, name, member.Type)...)
		fields = append(fields, f)
	}
	return fields
}

func protobufNumber(of reflect.Type, member reflect.StructField) string {
	// Nobody sends these as protobuf, and their schema type is recursive.
	if strings.Contains(of.PkgPath(), "apiextensions") {
		return "-"
	}
	parts := strings.Split(member.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return "-"
	}
	return parts[1]
}

func jsonFlags(options, embedded string) []string {
	var flags []string
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			flags = append(flags, "o")
		case "omitzero":
			flags = append(flags, "z")
		case "":
		default:
			log.Fatalf("unknown JSON option %q", option)
		}
	}
	if embedded != "" {
		flags = append(flags, "in="+embedded)
	}
	return flags
}

func patchFlags(root reflect.Type, member reflect.StructField) []string {
	var flags []string
	tag := member.Tag.Get("patchStrategy")
	for strategy := range strings.SplitSeq(tag, ",") {
		switch strategy {
		case "merge":
			merge := "merge"
			if key := member.Tag.Get("patchMergeKey"); key != "" {
				merge += "=" + key
			}
			flags = append(flags, merge)
		case "retainKeys":
			flags = append(flags, "retain")
		case "replace":
			flags = append(flags, "replace")
		case "":
		default:
			log.Fatalf("%v.%s: unknown patch strategy %q", root, member.Name, strategy)
		}
	}
	return flags
}

// reference names a struct and makes sure that it gets its block.
func (t *table) reference(of reflect.Type) string {
	name := typeName(of)
	if _, known := t.types[name]; !known && !ownEncoding[name] {
		t.types[name] = of
		t.queue = append(t.queue, of)
	}
	if name == "apiextensions/v1.JSONSchemaPropsOrBool" {
		t.reference(of.Field(1).Type.Elem())
	}
	return name
}

func (t *table) expression(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + t.expression(of.Elem())
	case reflect.Struct:
		return t.reference(of)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return named(of, "[]"+t.expression(of.Elem()))
	case reflect.Map:
		return named(of, "map["+of.Key().String()+"]"+t.expression(of.Elem()))
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return named(of, of.Kind().String())
	}
	log.Fatalf("no expression for %v", of)
	return ""
}

func named(of reflect.Type, expression string) string {
	if of.PkgPath() == "" {
		return expression
	}
	return of.String() + ":" + expression
}

// typeName is the package without its well-known beginning and the type: core/v1.Service, meta/v1.Time.
func typeName(of reflect.Type) string {
	path := strings.Split(of.PkgPath(), "/")
	short := path[len(path)-1]
	if strings.HasPrefix(short, "v") && len(path) > 1 {
		short = path[len(path)-2] + "/" + short
	}
	return short + "." + of.Name()
}
