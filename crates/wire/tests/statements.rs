//! Prepared statements, encoded and decoded byte for byte.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};
use wire::{
    Capabilities, ClientCommand, ColumnDefinition, EofPacket, ParameterValue, PrepareReader,
    PreparedStatement, StatementExecution, WireError,
};

const OLD: Capabilities = Capabilities::PROTOCOL_41;
const NEW: Capabilities = Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0);

fn check_command(command: ClientCommand<'_>, bytes: &[u8]) {
    let mut out = Vec::new();
    command.encode(&mut out).unwrap();
    assert_eq!(out, bytes);
    assert_eq!(ClientCommand::decode(bytes).unwrap(), command);
}

#[test]
fn commands() {
    check_command(ClientCommand::Prepare { sql: b"DO ?" }, b"\x16DO ?");
    check_command(
        ClientCommand::SendLongData { statement: 7, parameter: 258, data: b"abc" },
        b"\x18\x07\0\0\0\x02\x01abc",
    );
    check_command(ClientCommand::CloseStatement { statement: 7 }, b"\x19\x07\0\0\0");
    assert!(ClientCommand::decode(b"\x19\x07\0\0\0\0").is_err());
    assert!(ClientCommand::decode(b"\x18\x07\0\0\0\0").is_err());
}

/// Returns the indexes of the parameters that were sent earlier.
fn ahead(parameters: &[ParameterValue<'_>]) -> Vec<u16> {
    let is_ahead = |number: &u16| parameters[usize::from(*number)] == ParameterValue::SentAhead;
    (0..parameters.len() as u16).filter(is_ahead).collect()
}

#[test]
fn executions() {
    use ParameterValue::{Bytes, Double, Float, Int, Null, SentAhead, UInt};
    let check = |parameters: &[ParameterValue<'_>], expected: &[&[u8]]| {
        let execution = StatementExecution { statement: 3, parameters: parameters.to_vec() };
        let mut out = Vec::new();
        execution.encode(&mut out);
        assert_eq!(out, [b"\x17\x03\0\0\0\0\x01\0\0\0", expected.concat().as_slice()].concat());
        let (count, ahead) = (parameters.len() as u16, ahead(parameters));
        assert_eq!(StatementExecution::decode(&out, count, &ahead).unwrap(), execution);
        for end in 0..out.len() {
            assert!(StatementExecution::decode(&out[..end], count, &ahead).is_err());
        }
    };
    check(&[], &[]);
    check(&[Int(-1)], &[b"\0\x01", b"\x08\0", &[0xff; 8]]);
    check(&[UInt(1)], &[b"\0\x01", b"\x08\x80", b"\x01\0\0\0\0\0\0\0"]);
    check(
        &[Float(1.0), Double(1.0)],
        &[b"\0\x01", b"\x04\0\x05\0", b"\0\0\x80\x3f", b"\0\0\0\0\0\0\xf0\x3f"],
    );
    check(&[Null, Bytes(b"ab"), SentAhead], &[b"\x01\x01", b"\x06\0\xfd\0\xfd\0", b"\x02ab"]);
    check(&[Null; 9], &[b"\xff\x01\x01", &b"\x06\0".repeat(9)]);
}

/// Reads the response to a statement with these parameters and columns, as a server writes it.
fn read(capabilities: Capabilities, prepared: PreparedStatement) -> Result<(), WireError> {
    let mut reader = PrepareReader::new(capabilities);
    let mut packets = Vec::new();
    let mut put = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        packets.push(out);
    };
    put(&|out| prepared.encode(out));
    for count in [prepared.parameters, prepared.columns] {
        for _ in 0..count {
            put(&|out| ColumnDefinition::default().encode(out));
        }
        if count > 0 && capabilities == OLD {
            put(&|out| EofPacket::default().encode(capabilities, out));
        }
    }
    let (last, before) = packets.split_last().unwrap();
    for packet in before {
        assert_eq!(reader.read(packet)?, None);
    }
    assert_eq!(reader.read(last)?, Some(prepared));
    // No packet may follow.
    assert!(reader.read(last).is_err());
    Ok(())
}

#[test]
fn answers_to_prepare() {
    for capabilities in [OLD, NEW] {
        for (parameters, columns) in [(0, 0), (1, 0), (0, 1), (2, 3)] {
            let prepared = PreparedStatement { statement: 9, columns, parameters, warnings: 1 };
            read(capabilities, prepared).unwrap();
        }
    }
    let refused = |bytes: &[u8], expected: &str| {
        assert_eq!(PrepareReader::new(NEW).read(bytes).unwrap_err().to_string(), expected);
    };
    refused(b"", "answer to COM_STMT_PREPARE: byte 0: expected 1 more bytes, found 0");
    refused(b"\xff\x28\x04#42000no", "no (error 1064, SQL state 42000)");
    refused(
        b"\0\x01\0\0\0\0\0\0\0\0\0",
        "answer to COM_STMT_PREPARE: byte 10: expected 2 more bytes, found 1",
    );
    // No memory is reserved for definitions that never arrive, and other packets are not accepted as definitions.
    let mut reader = PrepareReader::new(NEW);
    let most = PreparedStatement { parameters: u16::MAX, columns: u16::MAX, ..PreparedStatement::default() };
    let mut out = Vec::new();
    most.encode(&mut out);
    assert_eq!(reader.read(&out).unwrap(), None);
    assert!(reader.read(b"").is_err());
}

/// Value that owns its bytes.
#[derive(Clone, Debug)]
enum OwnedValue {
    Value(ParameterValue<'static>),
    Bytes(Vec<u8>),
}

fn owned() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        any::<i64>().prop_map(|number| OwnedValue::Value(ParameterValue::Int(number))),
        any::<u64>().prop_map(|number| OwnedValue::Value(ParameterValue::UInt(number))),
        prop::num::f64::NORMAL.prop_map(|number| OwnedValue::Value(ParameterValue::Double(number))),
        prop::num::f32::NORMAL.prop_map(|number| OwnedValue::Value(ParameterValue::Float(number))),
        prop::bool::ANY.prop_map(|is_null| {
            OwnedValue::Value(if is_null { ParameterValue::Null } else { ParameterValue::SentAhead })
        }),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(OwnedValue::Bytes),
    ]
}

proptest! {
    #[test]
    fn executions_decode_to_the_encoded_values(values in prop::collection::vec(owned(), 0..40), statement: u32) {
        let value = |owned: &'_ OwnedValue| match owned {
            OwnedValue::Value(value) => *value,
            // Leaked for the test, so that owned and borrowed values have the same lifetime.
            OwnedValue::Bytes(bytes) => ParameterValue::Bytes(bytes.clone().leak()),
        };
        let execution = StatementExecution { statement, parameters: values.iter().map(value).collect() };
        let mut out = Vec::new();
        execution.encode(&mut out);
        let ahead = ahead(&execution.parameters);
        assert_eq!(StatementExecution::decode(&out, values.len() as u16, &ahead).unwrap(), execution);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), count: u16) {
        let _ = StatementExecution::decode(&bytes, count, &[0]);
        let _ = PreparedStatement::decode(&bytes);
        let _ = ClientCommand::decode(&bytes);
    }
}
