// franz-go's client of schema registries, pkg/sr: `franz_go URL` prints a line for each step that did what it should.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"
)

var ctx = context.Background()

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(holds bool, format string, values ...any) {
	if !holds {
		log.Fatalf(format, values...)
	}
}

// refused checks the status and the code of the registry's own error.
func refused(err error, status, code int, text string) {
	var found *sr.ResponseError
	check(errors.As(err, &found), "no response error: %v", err)
	check(found.StatusCode == status && found.ErrorCode == code && strings.Contains(found.Message, text), "%+v", found)
}

// evolves registers two versions, reads them back, and meets the error of a third one that does not fit.
func evolves(client *sr.Client, subject string, first, second, unfit sr.Schema) {
	one := must(client.CreateSchema(ctx, subject, first))
	two := must(client.CreateSchema(ctx, subject, second))
	check(one.Version == 1 && two.Version == 2 && one.ID != two.ID, "%v %v", one, two)
	again := must(client.CreateSchema(ctx, subject, first))
	check(again.ID == one.ID && again.Version == 1, "%v", again)
	found := must(client.LookupSchema(ctx, subject, second))
	check(found.ID == two.ID && found.Version == 2, "%v", found)
	latest := must(client.SchemaByVersion(ctx, subject, -1))
	check(latest.ID == two.ID && len(latest.References) == len(second.References), "%v", latest)
	byID := must(client.SchemaByID(ctx, two.ID))
	check(byID.Schema == latest.Schema.Schema && byID.Type == second.Type, "%v", byID)
	usages := must(client.SchemaUsagesByID(ctx, one.ID))
	check(slices.ContainsFunc(usages, func(each sr.SubjectSchema) bool { return each.Subject == subject && each.Version == 1 }), "%v", usages)
	checked := must(client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -1, unfit))
	check(!checked.Is && len(checked.Messages) > 0, "%v", checked)
	_, err := client.CreateSchema(ctx, subject, unfit)
	refused(err, 409, 409, "Schema being registered is incompatible with an earlier schema")
	fmt.Println("evolves", subject)
}

func text(schema sr.SchemaType, references []sr.SchemaReference, format string, values ...any) sr.Schema {
	return sr.Schema{Schema: fmt.Sprintf(format, values...), Type: schema, References: references}
}

func serdes(client *sr.Client) {
	type order struct{ Item string }
	subject := must(client.CreateSchema(ctx, "go-serde", text(sr.TypeJSON, nil, `{"type":"object","properties":{"Item":{"type":"string"}}}`)))
	var serde sr.Serde
	serde.Register(subject.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	encoded := must(serde.Encode(order{"pears"}))
	check(bytes.Equal(encoded[:5], []byte{0, 0, 0, 0, byte(subject.ID)}), "%v", encoded)
	var decoded order
	check(serde.Decode(encoded, &decoded) == nil && decoded.Item == "pears", "%v", decoded)
	fmt.Println("encodes and decodes")
}

func settings(client *sr.Client) {
	for _, each := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFullTransitive}, "go-avro") {
		check(each.Err == nil && each.Level == sr.CompatFullTransitive, "%v", each)
	}
	check(client.Compatibility(ctx, "go-avro")[0].Level == sr.CompatFullTransitive, "level")
	check(client.SetMode(ctx, sr.ModeReadOnly, "go-avro")[0].Err == nil, "mode")
	_, err := client.CreateSchema(ctx, "go-avro", text(sr.TypeAvro, nil, `"string"`))
	refused(err, 422, 42205, "read-only")
	check(client.SetMode(ctx, sr.ModeReadWrite, "go-avro")[0].Err == nil, "mode")
	_, err = client.SchemaByVersion(ctx, "go-nothing", 1)
	refused(err, 404, 40401, "go-nothing")
	_, err = client.CreateSchema(ctx, "go-bad", text(sr.TypeAvro, nil, `{"type":"nothing"}`))
	refused(err, 422, 42201, "")
	must(client.DeleteSubject(ctx, "go-json", sr.SoftDelete))
	check(slices.Contains(must(client.Subjects(sr.WithParams(ctx, sr.ShowDeleted))), "go-json"), "softly deleted")
	must(client.DeleteSubject(ctx, "go-json", sr.HardDelete))
	check(!slices.Contains(must(client.Subjects(sr.WithParams(ctx, sr.ShowDeleted))), "go-json"), "deleted")
	fmt.Println("changes settings, deletes, and meets errors")
}

func main() {
	client := must(sr.NewClient(sr.URLs(os.Args[1])))
	record := `{"type":"record","name":"Person","namespace":"go","fields":[%s]}`
	name, age := `{"name":"name","type":"string"}`, `{"name":"age","type":"int","default":7}`
	evolves(client, "go-avro", text(sr.TypeAvro, nil, record, name), text(sr.TypeAvro, nil, record, name+","+age),
		text(sr.TypeAvro, nil, record, `{"name":"name","type":"int"}`))
	closed := `{"type":"object","additionalProperties":false,"properties":{%s}}`
	evolves(client, "go-json", text(sr.TypeJSON, nil, closed, `"a":{"type":"string"}`),
		text(sr.TypeJSON, nil, closed, `"a":{"type":"string"},"b":{"type":"integer"}`), text(sr.TypeJSON, nil, closed, ""))
	must(client.CreateSchema(ctx, "go-address", text(sr.TypeProtobuf, nil, `syntax = "proto3"; package go; message Address { string street = 1; }`)))
	address := []sr.SchemaReference{{Name: "address.proto", Subject: "go-address", Version: 1}}
	proto := `syntax = "proto3"; package go; import "address.proto"; message Person { %s }`
	evolves(client, "go-protobuf", text(sr.TypeProtobuf, address, proto, "Address home = 1;"),
		text(sr.TypeProtobuf, address, proto, "Address home = 1; int32 age = 2;"), text(sr.TypeProtobuf, address, proto, "Address home = 1; string age = 2;"))
	referring := must(client.SchemaReferences(ctx, "go-address", 1))
	check(len(referring) == 2, "%v", referring)
	serdes(client)
	settings(client)
}
