//! Work on the files of a directory tree: open a file, transfer, close it, select the next (vdbench's FSD and FWD).

use serde::{Deserialize, Serialize};

/// Work on the files of a directory tree, one file after another (vdbench's FSD and FWD). The worker's only file is the root of the tree, which is created where it is missing;
/// its operations give the kinds that the tasks need, their transfer sizes, and the shares of reads and writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct TreeWork {
    /// Directories and files.
    pub tree: Tree,
    /// Tasks, one after another; at least one. Workers of a group on the same tree share the first three kinds: each
    /// file or directory is done by one of them, and the next task begins when all are done.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub tasks: Vec<TreeTask>,
    /// Order in which files and directories are selected.
    pub select: TreeSelect,
    /// Each file is selected once; the worker then ends.
    #[cfg_attr(test, schemars(default))]
    pub select_once: bool,
    /// A file that exists is deleted and created again before it is written.
    #[cfg_attr(test, schemars(default))]
    pub delete_first: bool,
    /// A file that was written is flushed before it is closed.
    #[cfg_attr(test, schemars(default))]
    pub flush_before_close: bool,
    /// Several workers may use one file at the same time.
    #[cfg_attr(test, schemars(default))]
    pub files_shared: bool,
    /// The time of each file from its open to its close is recorded.
    #[cfg_attr(test, schemars(default))]
    pub times_files: bool,
    /// Workers of a group with the same number have the rate of the worker together, and each issues what is due next
    /// (vdbench's `fwdrate`); `null` has it alone.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub rate_group: Option<u32>,
    /// End of the transfers on a file; `null` is as many bytes as the file has.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub stop_after: Option<StopAfter>,
    /// Root of a second tree of the same shape, to which `copy` and `rename` lead; `null` gives the copy or the renamed file
    /// another name in the same directory. Its directories must exist.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub target: Option<String>,
}

/// Directories below a root, with files in them: `vdb.LEVEL_NUMBER.dir` and `vdb_fNUMBER.file`, numbered over the whole tree from 0,
/// unless the tree has other names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// Levels of directories; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub depth: u32,
    /// Directories in each directory; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub width: u32,
    /// Files in each directory that has files; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub files: u32,
    /// Every directory has files, not only those of the lowest level.
    pub files_on_all_levels: bool,
    /// Sizes of files with their weights; at least one.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub sizes: Vec<SizeShare>,
    /// Sizes are drawn evenly between a half and one and a half times the size, in multiples of 1 KiB or more.
    #[cfg_attr(test, schemars(default))]
    pub sizes_spread: bool,
    /// Only files with this sum of sizes are used, chosen at random from the part; `null` uses all.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub used_bytes: Option<u64>,
    /// Only a part of the files is used: other clients have the other parts, and make and remove the same directories. `null` uses all.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub part: Option<TreePart>,
    /// Further roots: the directories of the first level are in the worker's root and in these in turn (elbencho).
    #[cfg_attr(test, schemars(default))]
    pub further_roots: Vec<String>,
    /// Missing directories above the root are created, too.
    #[cfg_attr(test, schemars(default))]
    pub creates_parents: bool,
    /// Other names than vdbench's.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub names: Option<TreeNames>,
}

/// Every `of`-th file of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TreePart {
    /// First file, from 0; less than `of`.
    pub number: u32,
    /// Number of parts; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub of: u32,
}

/// Names of directories and files, in which `{}` is the number, from 0, in the directory above (elbencho).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TreeNames {
    /// Name of a directory: `d{}`. Without `{}` there is one.
    pub directory: String,
    /// Name of a file: `r0-f{}`.
    pub file: String,
}

/// One of several file sizes. The size of a file follows from its number and the sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// 0 for empty files; an average size is at least 1.
    pub bytes: u64,
    /// Share of the files, relative to the other sizes.
    pub weight: u32,
}

/// A task of a worker on a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TreeTask {
    /// Removes everything below the root that has a name of such a tree; other files stay, with their directories.
    Remove,
    /// Creates the directories that are missing.
    MakeDirectories,
    /// Creates the files that are missing, and writes all files to their size.
    Fill,
    /// Opens a file, reads and writes it, closes it. A sequential write creates the file if it does not exist.
    Transfer,
    /// Creates an empty file.
    Create,
    /// Opens and closes a file.
    Open,
    /// Gets the attributes of a file.
    Getattr,
    /// Sets the times of a file.
    Setattr,
    /// Checks the access to a file.
    Access,
    /// Deletes a file.
    Delete,
    /// Creates a directory.
    Mkdir,
    /// Removes an empty directory.
    Rmdir,
    /// Looks the name of a file up.
    Lookup,
    /// Gives a file a second name (`vdb_fNUMBER.link`).
    Link,
    /// Creates a symbolic link to a file (`vdb_fNUMBER.symlink`).
    Symlink,
    /// Reads the symbolic link to a file.
    Readlink,
    /// Lists a directory.
    Readdir,
    /// Lists a directory with attributes.
    Readdirplus,
    /// Renames a file: to the second tree, or to `vdb_fNUMBER.renamed` and back.
    Rename,
    /// Copies a file: to the second tree, or to `vdb_fNUMBER.copy`.
    Copy,
    /// Reads a file as one operation.
    ReadFile,
    /// Writes a file as one operation; the file is created if it does not exist.
    WriteFile,
    /// Draws a kind for each file or directory, by the shares of the worker's operations on names, attributes and whole files.
    /// A kind that finds nothing to work on in a few tries does its inverse first, which has its own latencies: a symlink is
    /// created before it is read, a file deleted before it is created.
    Mix,
}

/// Order in which files and directories of a tree are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("class" = "{}Select")))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum TreeSelect {
    /// In turn; all workers on the tree share the position.
    Sequential {},
    /// All equally likely.
    Random {},
    /// Files near the start are more likely: half of the selections go to the first files.
    Skewed {
        /// Those files, in millionths of all files; at least 1.
        #[cfg_attr(test, schemars(range(min = 1)))]
        half_within_ppm: u32,
    },
}

/// End of the transfers on one file. Sequential transfers continue there when the file is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("class" = "After{}")))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StopAfter {
    /// A file is closed after a number of transfers.
    Transfers {
        /// At least 1.
        count: u64,
    },
    /// A file is closed after a part of its size.
    Percent {
        /// 1 to 100.
        #[cfg_attr(test, schemars(range(max = 100)))]
        percent: u32,
    },
}
