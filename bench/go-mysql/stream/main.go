// Writes row changes as `bintide stream --columns numbered` does, in Debezium's form or Maxwell's. It is measured
// beside bintide. For speed, it appends to one buffer, and handles only the column types of the workloads.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
)

// Minimum number of bytes that are written at once.
const writeSize = 256 << 10

func main() {
	if len(os.Args) < 3 || os.Args[1] != "debezium" && os.Args[1] != "maxwell" {
		fmt.Fprintln(os.Stderr, "usage: stream debezium|maxwell LOG...")
		os.Exit(2)
	}
	out := bufio.NewWriterSize(os.Stdout, writeSize)
	defer out.Flush()
	for _, file := range os.Args[2:] {
		parser := replication.NewBinlogParser()
		parser.SetVerifyChecksum(true)
		w := writer{out: out, log: filepath.Base(file), debezium: os.Args[1] == "debezium", counts: map[string]int{}}
		if err := parser.ParseFile(file, 0, func(event *replication.BinlogEvent) error {
			w.start = int64(event.Header.LogPos) - int64(event.Header.EventSize)
			w.end = int64(event.Header.LogPos)
			w.take(event)
			return nil
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

type writer struct {
	out      *bufio.Writer
	log      string
	debezium bool
	// Offsets of the event in the log. Events in a payload have those of the payload.
	start, end int64
	// The present transaction.
	gtid     string
	commitUs uint64
	thread   uint32
	begun    bool
	total    int
	counts   map[string]int
	tables   []string
	// Text that is not written yet. In Maxwell's form, that of the whole transaction.
	text []byte
	// Offsets in text at which the transaction's xid is inserted, in Maxwell's form.
	xidOffsets []int
}

func (w *writer) take(event *replication.BinlogEvent) {
	switch body := event.Event.(type) {
	case *replication.TransactionPayloadEvent:
		for _, inner := range body.Events {
			w.take(inner)
		}
	case *replication.GTIDEvent:
		w.gtid = uuid(body.SID) + ":" + strconv.FormatInt(body.GNO, 10)
		w.commitUs = body.OriginalCommitTimestamp
		if w.commitUs == 0 {
			w.commitUs = body.ImmediateCommitTimestamp
		}
	case *replication.QueryEvent:
		w.thread = body.SlaveProxyID
		if string(body.Query) == "BEGIN" {
			w.begin()
		}
	case *replication.RowsEvent:
		w.begin()
		if w.debezium {
			w.debeziumRows(event.Header, body)
		} else {
			w.maxwellRows(event.Header, body)
		}
	case *replication.XIDEvent:
		if w.debezium {
			w.debeziumEnd()
		} else {
			w.maxwellEnd(body.XID)
		}
		w.begun, w.total, w.tables = false, 0, w.tables[:0]
		clear(w.counts)
	}
}

func (w *writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.debezium {
		w.text = append(w.text, `{"status":"BEGIN","id":"`...)
		w.text = append(w.text, w.gtid...)
		w.text = append(w.text, `","event_count":null,"data_collections":null,"ts_ms":`...)
		w.text = strconv.AppendUint(w.text, w.commitUs/1000, 10)
		w.text = append(w.text, "}\n"...)
	}
}

func (w *writer) drain() {
	w.out.Write(w.text)
	w.text = w.text[:0]
}

func (w *writer) debeziumRows(header *replication.EventHeader, rows *replication.RowsEvent) {
	name := string(rows.Table.Schema) + "." + string(rows.Table.Table)
	if w.counts[name] == 0 {
		w.tables = append(w.tables, name)
	}
	now := time.Now().UnixNano()
	var front, middle, behind []byte
	front = append(front, `,"source":{"version":"0.1.0","connector":"mysql","name":"bintide","ts_ms":`...)
	front = strconv.AppendUint(front, w.commitUs/1000, 10)
	front = append(front, `,"snapshot":"false","db":`...)
	front = appendString(front, string(rows.Table.Schema))
	front = append(front, `,"sequence":null,"ts_us":`...)
	front = strconv.AppendUint(front, w.commitUs, 10)
	front = append(front, `,"ts_ns":`...)
	front = strconv.AppendUint(front, w.commitUs*1000, 10)
	front = append(front, `,"table":`...)
	front = appendString(front, string(rows.Table.Table))
	front = append(front, `,"server_id":`...)
	front = strconv.AppendUint(front, uint64(header.ServerID), 10)
	front = append(front, `,"gtid":"`...)
	front = append(front, w.gtid...)
	front = append(front, `","file":`...)
	front = appendString(front, w.log)
	front = append(front, `,"pos":`...)
	front = strconv.AppendInt(front, w.start, 10)
	front = append(front, `,"row":`...)
	middle = append(middle, `,"thread":`...)
	middle = strconv.AppendUint(middle, uint64(w.thread), 10)
	middle = append(middle, `,"query":null},"transaction":{"id":"`...)
	middle = append(middle, w.gtid...)
	middle = append(middle, `","total_order":`...)
	behind = append(behind, `","ts_ms":`...)
	behind = strconv.AppendInt(behind, now/1e6, 10)
	behind = append(behind, `,"ts_us":`...)
	behind = strconv.AppendInt(behind, now/1e3, 10)
	behind = append(behind, `,"ts_ns":`...)
	behind = strconv.AppendInt(behind, now, 10)
	behind = append(behind, "}\n"...)
	op, step := kind(header.EventType)
	for index := 0; index*step < len(rows.Rows); index++ {
		images := rows.Rows[index*step : index*step+step]
		w.text = append(w.text, `{"before":`...)
		if op == 'c' {
			w.text = append(w.text, "null"...)
		} else {
			w.image(rows, images[0])
		}
		w.text = append(w.text, `,"after":`...)
		if op == 'd' {
			w.text = append(w.text, "null"...)
		} else {
			w.image(rows, images[step-1])
		}
		w.total++
		w.counts[name]++
		w.text = append(w.text, front...)
		w.text = strconv.AppendInt(w.text, int64(index), 10)
		w.text = append(w.text, middle...)
		w.text = strconv.AppendInt(w.text, int64(w.total), 10)
		w.text = append(w.text, `,"data_collection_order":`...)
		w.text = strconv.AppendInt(w.text, int64(w.counts[name]), 10)
		w.text = append(w.text, `},"op":"`...)
		w.text = append(w.text, op)
		w.text = append(w.text, behind...)
		if len(w.text) > writeSize {
			w.drain()
		}
	}
}

func (w *writer) debeziumEnd() {
	w.text = append(w.text, `{"status":"END","id":"`...)
	w.text = append(w.text, w.gtid...)
	w.text = append(w.text, `","event_count":`...)
	w.text = strconv.AppendInt(w.text, int64(w.total), 10)
	w.text = append(w.text, `,"data_collections":[`...)
	for index, name := range w.tables {
		if index > 0 {
			w.text = append(w.text, ',')
		}
		w.text = append(w.text, `{"data_collection":`...)
		w.text = appendString(w.text, name)
		w.text = append(w.text, `,"event_count":`...)
		w.text = strconv.AppendInt(w.text, int64(w.counts[name]), 10)
		w.text = append(w.text, '}')
	}
	w.text = append(w.text, `],"ts_ms":`...)
	w.text = strconv.AppendUint(w.text, w.commitUs/1000, 10)
	w.resume()
	w.drain()
}

func (w *writer) resume() {
	w.text = append(w.text, `,"resume":"`...)
	w.text = append(w.text, w.log...)
	w.text = append(w.text, ':')
	w.text = strconv.AppendInt(w.text, w.end, 10)
	w.text = append(w.text, ',')
	w.text = append(w.text, w.gtid...)
	w.text = append(w.text, "\"}\n"...)
}

func (w *writer) maxwellRows(header *replication.EventHeader, rows *replication.RowsEvent) {
	op, step := kind(header.EventType)
	var front, middle []byte
	front = append(front, `{"database":`...)
	front = appendString(front, string(rows.Table.Schema))
	front = append(front, `,"table":`...)
	front = appendString(front, string(rows.Table.Table))
	front = append(front, `,"type":"`...)
	front = append(front, map[byte]string{'c': "insert", 'u': "update", 'd': "delete"}[op]...)
	front = append(front, `","ts":`...)
	front = strconv.AppendUint(front, uint64(header.Timestamp), 10)
	middle = append(middle, `,"position":"`...)
	middle = append(middle, w.log...)
	middle = append(middle, ':')
	middle = strconv.AppendInt(middle, w.start, 10)
	middle = append(middle, `","gtid":"`...)
	middle = append(middle, w.gtid...)
	middle = append(middle, `","server_id":`...)
	middle = strconv.AppendUint(middle, uint64(header.ServerID), 10)
	middle = append(middle, `,"thread_id":`...)
	middle = strconv.AppendUint(middle, uint64(w.thread), 10)
	middle = append(middle, `,"data":`...)
	for index := 0; index < len(rows.Rows); index += step {
		w.text = append(w.text, front...)
		w.xidOffsets = append(w.xidOffsets, len(w.text))
		w.text = append(w.text, middle...)
		w.image(rows, rows.Rows[index+step-1])
		if op == 'u' {
			w.old(rows.Rows[index], rows.Rows[index+1])
		}
		w.text = append(w.text, "}\n"...)
	}
}

func (w *writer) maxwellEnd(xid uint64) {
	if len(w.xidOffsets) == 0 {
		return
	}
	w.text = w.text[:len(w.text)-2]
	w.resume()
	number := append([]byte(`,"xid":`), strconv.FormatUint(xid, 10)...)
	start := 0
	var rowNumber []byte
	for index, offset := range w.xidOffsets {
		w.out.Write(w.text[start:offset])
		w.out.Write(number)
		if index+1 == len(w.xidOffsets) {
			w.out.WriteString(`,"commit":true`)
		} else {
			rowNumber = strconv.AppendInt(append(rowNumber[:0], `,"xoffset":`...), int64(index), 10)
			w.out.Write(rowNumber)
		}
		start = offset
	}
	w.out.Write(w.text[start:])
	w.text, w.xidOffsets = w.text[:0], w.xidOffsets[:0]
}

func (w *writer) image(rows *replication.RowsEvent, image []interface{}) {
	w.text = append(w.text, '{')
	for index, value := range image {
		if index > 0 {
			w.text = append(w.text, ',')
		}
		w.field(index, value, rows.Table.ColumnType[index])
	}
	w.text = append(w.text, '}')
}

// Writes the old values of the columns that an update changed. The workloads change no dates.
func (w *writer) old(before, after []interface{}) {
	sign := `,"old":{`
	for index, value := range before {
		if value != after[index] {
			w.text = append(w.text, sign...)
			w.field(index, value, 0)
			sign = ","
		}
	}
	if sign == "," {
		w.text = append(w.text, '}')
	}
}

func (w *writer) field(index int, value interface{}, columnType byte) {
	const date = 10
	w.text = append(w.text, `"@`...)
	w.text = strconv.AppendInt(w.text, int64(index+1), 10)
	w.text = append(w.text, `":`...)
	switch value := value.(type) {
	case nil:
		w.text = append(w.text, "null"...)
	case int8:
		w.text = strconv.AppendInt(w.text, int64(value), 10)
	case int16:
		w.text = strconv.AppendInt(w.text, int64(value), 10)
	case int32:
		w.text = strconv.AppendInt(w.text, int64(value), 10)
	case int64:
		w.text = strconv.AppendInt(w.text, value, 10)
	case string:
		if columnType == date && w.debezium {
			day, _ := time.Parse(time.DateOnly, value)
			w.text = strconv.AppendInt(w.text, day.Unix()/86400, 10)
			return
		}
		w.text = appendString(w.text, value)
	case []byte:
		w.text = appendString(w.text, string(value))
	default:
		fmt.Fprintf(os.Stderr, "no workload has a %T\n", value)
		os.Exit(1)
	}
}

func kind(event replication.EventType) (byte, int) {
	switch event {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2:
		return 'c', 1
	case replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2:
		return 'd', 1
	}
	return 'u', 2
}

func appendString(text []byte, value string) []byte {
	start := len(text)
	text = append(text, '"')
	text = append(text, value...)
	for _, char := range text[start+1:] {
		if char < ' ' || char == '"' || char == '\\' {
			quoted, _ := json.Marshal(value)
			return append(text[:start], quoted...)
		}
	}
	return append(text, '"')
}

func uuid(sid []byte) string {
	text := hex.EncodeToString(sid)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
