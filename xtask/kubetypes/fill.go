package main

import (
	"fmt"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filler sets every field of an object to a value that occurs nowhere else, so that swapped fields are noticed.
type filler struct {
	count int
	// Inside a pod template only every fourth field is set: the Pod golden has them all.
	sparse int
	// Pointers get zero values, lists and maps stay empty.
	zeros bool
}

func (f *filler) next() int {
	f.count++
	return f.count
}

func (f *filler) fill(v reflect.Value, depth int) {
	if f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.zeros && isTime(v.Type().Elem()) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth)
	case reflect.Struct:
		f.fillStruct(v, depth)
	case reflect.Slice:
		f.fillSlice(v, depth)
	case reflect.Map:
		f.fillMap(v, depth)
	default:
		if !f.zeros {
			f.fillScalar(v)
		}
	}
}

// isTime tells the types whose zero value is null in JSON: behind a pointer, our server takes that as absent.
func isTime(of reflect.Type) bool {
	return of == reflect.TypeFor[metav1.Time]() || of == reflect.TypeFor[metav1.MicroTime]()
}

func (f *filler) fillStruct(v reflect.Value, depth int) {
	template := v.Type().Name() == "PodTemplateSpec"
	if template {
		f.sparse++
	}
	for i := range v.NumField() {
		// The API version and kind travel in the envelope.
		if v.Type().Field(i).Name == "TypeMeta" || v.Type().Field(i).Tag.Get("json") == "-" {
			continue
		}
		if f.sparse > 0 && f.next()%4 != 0 || depth > 12 {
			continue
		}
		f.fill(v.Field(i), depth+1)
	}
	if template {
		f.sparse--
	}
}

func (f *filler) fillSlice(v reflect.Value, depth int) {
	if f.zeros {
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte{byte(f.next()), 0, 255})
		return
	}
	length := 2
	if v.Type().Elem().Kind() == reflect.Struct {
		length = 1
	}
	v.Set(reflect.MakeSlice(v.Type(), length, length))
	for i := range length {
		f.fill(v.Index(i), depth+1)
	}
}

func (f *filler) fillMap(v reflect.Value, depth int) {
	if f.zeros {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range 2 {
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(fmt.Sprintf("k%d", f.next()))
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value, depth+1)
		v.SetMapIndex(key, value)
	}
}

func (f *filler) fillScalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(int64(f.next()) - 1<<20)
	case reflect.Int64:
		v.SetInt(int64(f.next()) << 33)
	case reflect.Float64:
		v.SetFloat(float64(f.next()) + 0.5)
	default:
		panic(v.Type())
	}
}

var quantities = []string{"1500m", "2", "3Gi", "40M", "5e3", "600n"}

// special fills the types that have an encoding of their own.
func (f *filler) special(v reflect.Value) bool {
	if !v.CanAddr() {
		return false
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if !f.zeros {
			p.Time = time.Unix(1_700_000_000+int64(f.next()), 0)
		}
	case *metav1.MicroTime:
		if !f.zeros {
			p.Time = time.Unix(1_700_000_000, int64(f.next())*1000)
		}
	case *resource.Quantity:
		if !f.zeros {
			*p = resource.MustParse(quantities[f.next()%len(quantities)])
		}
	case *intstr.IntOrString:
		if !f.zeros {
			*p = intstr.FromInt32(int32(f.next()))
			if f.next()%2 == 0 {
				*p = intstr.FromString(fmt.Sprintf("p%d", f.next()))
			}
		}
	case *metav1.FieldsV1:
		*p = *metav1.NewFieldsV1(fmt.Sprintf(`{"f:f%d":{}}`, f.next()))
	case *runtime.RawExtension:
		p.Raw = fmt.Appendf(nil, `{"r":%d}`, f.next())
	case *apiextensionsv1.JSONSchemaProps, *apiextensionsv1.JSON:
	default:
		return false
	}
	return true
}
