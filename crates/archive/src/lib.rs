//! Archives of binary logs: each log is divided into streams of fields, which compress better than the log, and
//! comes back byte for byte. This crate never prints, never talks to a MySQL server, and never changes a log.
#![forbid(unsafe_code)]

#[cfg(feature = "storage")]
mod archive;
mod archive_error;
#[cfg(feature = "storage")]
mod archive_objects;
mod block_decoder;
mod block_encoder;
mod block_frame;
mod block_reader;
mod block_summary;
#[cfg(feature = "storage")]
mod change_table_store;
mod change_tables;
#[cfg(feature = "storage")]
mod column_list;
#[cfg(feature = "storage")]
mod decryption_reader;
mod encrypted_object;
mod encrypted_object_error;
mod event_fields;
mod event_form;
mod fixed_rows;
mod log_block;
mod manifest;
mod master_key;
#[cfg(feature = "storage")]
mod open_archives;
mod payload_frames;
mod row_layout;
mod segment;
mod segment_error;
#[cfg(feature = "storage")]
mod storage;
mod stream_codec;
mod stream_set;
mod varint;

#[cfg(feature = "storage")]
pub use crate::archive::{
    AddOptions, Archive, ArchiveOutcome, ArchivedLog, DamagedManifest, ManifestList, SegmentTrial,
};
pub use crate::archive_error::ArchiveError;
pub use crate::block_decoder::BlockDecoder;
pub use crate::block_encoder::{BlockEncoder, EncodedBlock};
pub use crate::block_reader::{BLOCK_SIZE, EVENT_SIZE_LIMIT, LogBlockReader};
pub use crate::block_summary::BlockSummary;
#[cfg(feature = "storage")]
pub use crate::change_table_store::ChangeTableStore;
#[cfg(feature = "storage")]
pub use crate::change_tables::TableWriter;
pub use crate::change_tables::{LocalTables, ManifestTables, TableFile};
#[cfg(feature = "storage")]
pub use crate::column_list::ColumnList;
pub use crate::encrypted_object::{
    CHUNK_SIZE, ChunkLayout, OBJECT_HEAD_SIZE, ObjectDecryptor, ObjectEncryptor, decrypt_object,
    encrypt_object, is_encrypted,
};
pub use crate::encrypted_object_error::EncryptedObjectError;
pub use crate::log_block::{BlockContent, BlockContext, LogBlock, OpaqueReason};
pub use crate::manifest::{
    ChangedTable, ChangedTables, FRONT_SIZE, Manifest, ManifestSegment, ManifestStatistics,
};
pub use crate::master_key::{ArchiveKeys, MasterKey, NoMasterKey, TableKey};
#[cfg(feature = "storage")]
pub use crate::open_archives::make_archives_readable;
pub use crate::segment::{
    LogDigest, SEGMENT_FORMAT, SegmentHead, SegmentSummary, open_cipher, read_segment, write_segment,
};
pub use crate::segment_error::SegmentError;
#[cfg(feature = "storage")]
pub use crate::storage::{
    ArchiveStorage, CreateOutcome, MissingDirectory, ObjectReader, ObjectUpload, StoredObject, is_object_url,
};
