package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kjson "sigs.k8s.io/json"
)

// message is a golden file's entry for protobuf: a body, and the JSON that Go makes of it.
type message struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Protobuf   string          `json:"protobuf"`
	JSON       json.RawMessage `json:"json"`
}

// trip is a golden file's entry for JSON: a body, and what Go's decoder or a stored copy says.
type trip struct {
	Input   json.RawMessage `json:"input"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"`
	Unknown []string        `json:"unknown,omitempty"`
}

func goldens() map[string][]byte {
	var messages []any
	for _, g := range groups {
		for _, object := range g.objects {
			for _, zeros := range []bool{false, true} {
				if _, isMessage := newObject(reflect.TypeOf(object)).(protobufObject); isMessage && !jsonStored(g.apiVersion) {
					messages = append(messages, protobufGolden(g.apiVersion, object, zeros))
				}
			}
		}
	}
	var trips []any
	for _, input := range bodies {
		trips = append(trips, jsonGolden(input))
	}
	return map[string][]byte{"protobuf.json": lines(messages), "json.json": lines(trips), "quantities.json": lines(quantityGoldens())}
}

// quantityGoldens pairs quantities with what Go writes for them, or with the refusal.
func quantityGoldens() []any {
	var goldens []any
	for _, number := range []string{"0", "1", "-7", "+8", "010", "1000", "1024", "1536", "999999999999", "123456789012345678"} {
		for _, fraction := range []string{"", ".", ".5", ".25", ".000", ".0001", ".123456789123"} {
			var pairs [][2]string
			for _, suffix := range []string{"", "n", "u", "m", "k", "M", "E", "Ki", "Mi", "Gi", "Ei", "e3", "E-2", "e+1", "e", "e-20", "K", "i", "x"} {
				// Go forgets the suffix of what is too large for all of them.
				if number == "1000" && suffix == "E" {
					continue
				}
				text := number + fraction + suffix
				pairs = append(pairs, [2]string{text, canonicalQuantity(text)})
			}
			goldens = append(goldens, pairs)
		}
	}
	return goldens
}

func canonicalQuantity(text string) string {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return err.Error()
	}
	return parsed.String()
}

// lines is a JSON array with one entry per line, for the sake of diffs.
func lines(entries []any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	separator := "["
	for _, entry := range entries {
		out.WriteString(separator)
		must(encoder.Encode(entry))
		separator = ","
	}
	out.WriteString("]\n")
	return out.Bytes()
}

type protobufObject interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Custom resource definitions are kept as JSON by a real server.
func jsonStored(apiVersion string) bool {
	return strings.HasPrefix(apiVersion, "apiextensions")
}

func newObject(of reflect.Type) any {
	return reflect.New(of).Interface()
}

func protobufGolden(apiVersion string, object any, zeros bool) message {
	of := reflect.TypeOf(object)
	filled := newObject(of).(protobufObject)
	(&filler{zeros: zeros}).fill(reflect.ValueOf(filled).Elem(), 0)
	filled.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, of.Name()))
	var body bytes.Buffer
	must(protobuf.NewSerializer(nil, nil).Encode(filled, &body))
	text, err := json.Marshal(filled)
	must(err)
	return message{apiVersion, of.Name(), base64.StdEncoding.EncodeToString(body.Bytes()), text}
}

func jsonGolden(input string) trip {
	var meta metav1.TypeMeta
	must(json.Unmarshal([]byte(input), &meta))
	object := newObject(kindType(meta))
	golden := trip{Input: json.RawMessage(input)}
	strict, err := kjson.UnmarshalStrict([]byte(input), object)
	if err != nil {
		golden.Error = err.Error()
		return golden
	}
	for _, unknown := range strict {
		golden.Unknown = append(golden.Unknown, unknown.(kjson.FieldError).FieldPath())
	}
	if !jsonStored(meta.APIVersion) {
		object = stored(object.(protobufObject))
	}
	golden.Output, err = json.Marshal(object)
	must(err)
	return golden
}

// stored is the object after it was written to and read from a real server's storage.
func stored(object protobufObject) any {
	kind := object.GetObjectKind().GroupVersionKind()
	data, err := object.Marshal()
	must(err)
	copied := newObject(reflect.TypeOf(object).Elem()).(protobufObject)
	must(copied.Unmarshal(data))
	copied.GetObjectKind().SetGroupVersionKind(kind)
	return copied
}

func kindType(meta metav1.TypeMeta) reflect.Type {
	for _, g := range groups {
		for _, object := range g.objects {
			if of := reflect.TypeOf(object); g.apiVersion == meta.APIVersion && of.Name() == meta.Kind {
				return of
			}
		}
	}
	panic(fmt.Sprintf("no kind %s %s", meta.APIVersion, meta.Kind))
}
