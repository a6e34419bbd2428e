//! Classes of errors with stable identifiers, for scripts, search and `hopbyte explain`.
//!
//! A class is a kind of problem with one remedy, not a place in the code. An identifier is never given to another
//! class: a class that ends moves to [`RETIRED`]. `crates/fabric/tests/classes.rs` compares both with the list of all
//! identifiers that were ever published.

/// Makes the enum and its table from one list.
macro_rules! classes {
    ($($name:ident $id:literal $title:literal
        cause $cause:literal example $example:literal remedy $remedy:literal)*) => {
        /// Class of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Class {
            $(#[doc = $title] $name,)*
        }

        impl Class {
            /// All classes, by identifier.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its description.
            pub const fn about(self) -> &'static About {
                match self {
                    $(Self::$name => &About {
                        id: $id, title: $title, cause: $cause, example: $example, remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

/// Description of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Identifier, such as HB0201.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// Why it happens.
    pub cause: &'static str,
    /// A command line that fails so, in a folder with the repository's `data`; empty if that takes another machine.
    pub example: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Identifiers of former classes, with their titles.
pub const RETIRED: &[(&str, &str)] = &[];

impl Class {
    /// Identifier, such as HB0201.
    pub const fn id(self) -> &'static str {
        self.about().id
    }

    /// The class with an identifier; upper or lower case, `HB` and leading zeros may be missing.
    pub fn find(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        let number: u32 = upper.strip_prefix("HB").unwrap_or(&upper).parse().ok()?;
        let id = format!("HB{number:04}");
        Self::ALL.iter().copied().find(|class| class.id() == id)
    }
}

classes! {
    UnknownWord "HB0001" "A verb or option that does not exist"
    cause "The command line has a word that no verb or option of this version is called."
    example "hopbyte fabric show torus:4x4 --colour"
    remedy "Take the similar word that the message suggests, or look it up with --help behind the verb."

    OptionValue "HB0002" "A value that an option or argument does not accept"
    cause "The value has another form, or is outside the range, or is not in the list of names that the option takes."
    example "hopbyte oracle query --fabric torus:4x4 n0-0 n1-1 --metric load"
    remedy "Give one of the values that the message lists as expected; --help describes them."

    MissingArgument "HB0003" "An argument is missing"
    cause "The verb needs an argument or option that the command line does not have."
    example "hopbyte verify"
    remedy "Add what the message names. A machine that is always the same can be configured once: `hopbyte config`."

    Conflict "HB0004" "Options that exclude each other"
    cause "Two options ask for different answers of one call."
    example "hopbyte map stencil:2x2:5 --fabric torus:2x2 --nodes all --seeds 2 --part 1/2 --out o --emit csv"
    remedy "Leave one of them out, or make two calls."

    Refused "HB0005" "Arguments that are valid, and do not form a question"
    cause "Every argument can be read, but together they leave out what the answer needs, or contradict each other."
    example "hopbyte oracle query --fabric torus:4x4"
    remedy "Follow the hint of the message."

    Content "HB0101" "Content of a file that cannot be read"
    cause "The file is of another format than the argument takes, was cut off, or was changed by hand. The message has \
        the line, the found text and the expected one."
    example "hopbyte fabric show data/README.md"
    remedy "Check that it is the file you mean, and that its copy is complete; the book's pages on formats show each form."

    Spec "HB0102" "A spec that is not valid"
    cause "A machine, traffic or collective that is described by a word such as torus:8x8x8 has a wrong part."
    example "hopbyte fabric show gemini:1x2"
    remedy "Write it in the form of the hint; `hopbyte fabric specs` lists those of machines."

    Limit "HB0103" "A size above a limit"
    cause "The input is larger than hopbyte accepts; sizes are checked before memory is allocated."
    example "hopbyte fabric show torus:4000x4000"
    remedy "Reduce the input. The limits are in the book, page Errors and exit codes."

    NotAFile "HB0104" "A path that is no regular file"
    cause "Devices, sockets and named pipes are refused before they are opened, because reading them may not end."
    example "hopbyte fabric show /dev/urandom"
    remedy "Give a file, `-` for standard input, or a pipe that is open already: <(command)."

    OtherMachine "HB0105" "Inputs of different machines"
    cause "Counters, placements or tables name links or nodes of which the machine has none."
    example "hopbyte links data/links.jsonl --fabric gemini:2x2x2"
    remedy "Give the machine from which the file was taken, and its --names if hosts are called otherwise there."

    UnknownName "HB0201" "A node, router or link that the machine does not have"
    cause "The name is misspelt, or belongs to another machine."
    example "hopbyte fabric route torus:4x4 n0-0 n9-9"
    remedy "`hopbyte fabric nodes MACHINE` lists the names of nodes; the message suggests similar ones."

    AmbiguousName "HB0202" "A name that several nodes have"
    cause "A short name or an alias fits several nodes."
    example ""
    remedy "Give the full name of the node."

    DuplicateName "HB0203" "Two nodes or routers with one name"
    cause "The description of the machine names two of its parts alike, so that neither could be asked for."
    example ""
    remedy "Rename one of them in the description, or give --names with a name for each GUID."

    OutOfRange "HB0204" "A number outside its range"
    cause "A value can be read, and is not possible there: a negative size, a share above one, a rank that does not exist."
    example "hopbyte map stencil:4x4:5 --fabric torus:4x4 --nodes all --threads 1000000"
    remedy "Give a number within the range in the message."

    NoRoute "HB0301" "Nodes without a route between them"
    cause "Tasks exchange data between nodes that no working path connects: a link is down, or a forwarding table is \
        incomplete."
    example "hopbyte map stencil:4x4:5 --fabric mesh:4x4 --nodes all --down r0-0"
    remedy "`hopbyte fabric check` names all such pairs. Leave one side of each pair out of the allocation, or give the \
        tables that route it."

    CreditLoop "HB0302" "Packets that wait for each other's buffers"
    cause "The routes form a cycle of buffers, and the model of packets has too few virtual channels to break it."
    example ""
    remedy "`hopbyte fabric check` names the cycle. The levels fluid and stalls have no queues and give an answer."

    Deadlock "HB0303" "Operations of a program that never end"
    cause "Ranks wait for each other: two blocking sends to each other of messages that wait for their receiver, or a \
        receive without a send."
    example ""
    remedy "Mend the order of the calls, or raise eager_bytes in the scenario if the library sends such messages at once."

    NoTasks "HB0401" "Traffic without tasks"
    cause "The traffic has no ranks, so there is nothing to place."
    example ""
    remedy "Check that the recording is of the ranks and not of the launcher; `hopbyte record` shows what it kept."

    TooManyTasks "HB0402" "More tasks than slots"
    cause "The allocation has fewer places than the traffic has ranks."
    example "hopbyte map stencil:8x8:5 --fabric torus:4x4 --nodes all --ranks-per-node 1"
    remedy "Allocate more nodes, or allow more ranks on each: --ranks-per-node, or node:4 in the list."

    TooManyPartners "HB0403" "A task with too many partners"
    cause "One rank exchanges messages with more others than a search can follow."
    example ""
    remedy "Leave out all-to-one traffic, or count a collective by its algorithm (:collectives=RULES)."

    OtherJob "HB0404" "A placement of another job"
    cause "The placement has another number of ranks than the traffic, or a node outside the allocation."
    example ""
    remedy "Give the placement and the nodes of the same run."

    RouteCosts "HB0405" "Costs of routes that are not valid"
    cause "Costs from outside have another number of values than pairs of nodes, or a value below zero."
    example ""
    remedy "Give one cost for each pair of allocated nodes, not-a-number where it is unknown."

    UnknownForm "HB0501" "A launcher or format that hopbyte does not write"
    cause "The name of the output is none of the table."
    example ""
    remedy "Give one of the names in the hint."

    HostName "HB0502" "A host name that a launcher's file cannot carry"
    cause "The name has characters that a launcher would read as another part of its file, or as a command."
    example ""
    remedy "Give the hosts other names with --names."

    Inexpressible "HB0503" "An answer that the format cannot express"
    cause "The launcher or format has no way to write this placement or machine; a file would mean another one."
    example "hopbyte fabric convert torus:4x4 --to slurm-conf"
    remedy "Take the form in the hint."

    Write "HB0504" "A file that cannot be written"
    cause "The folder does not exist, may not be written by this user, or the disk is full; or nobody reads the named \
        pipe. Nothing is half-written: an older file of the name is unchanged. Files of a mapping are replaced together, \
        and put back if one cannot be; the message names any that could not be."
    example "hopbyte fabric draw torus:2x2 --out no-such-folder/torus.svg"
    remedy "Give another path, or make the folder."

    NoSuchFile "HB0601" "A file that does not exist"
    cause "The path is misspelt, or relative to another folder."
    example "hopbyte fabric show no-such-file.txt"
    remedy "Check the path; a machine without a file is a spec such as torus:8x8x8."

    Denied "HB0602" "A missing permission"
    cause "The file or device exists and may not be used by this user."
    example ""
    remedy "`hopbyte doctor` says which permission each source of counters needs and how to give it."

    NoSpace "HB0603" "A full disk"
    cause "The file system has no space or no inodes left, or the user's quota is used up."
    example ""
    remedy "Free some space and run the command again; files of earlier runs are unchanged."

    System "HB0604" "An error of the operating system"
    cause "A call of the operating system failed for another reason than those with identifiers of their own."
    example ""
    remedy "The message has the system's words and the file; `hopbyte doctor` shows what can be read here."

    Lacking "HB0605" "A program, device or right that this machine lacks"
    cause "The verb needs something that is not installed or not allowed here: a launcher, root's rights, a device."
    example ""
    remedy "Install it or ask for it, as the message says; `hopbyte doctor` lists what is missing and what it is for."

    Unreachable "HB0606" "A collector, oracle or bus that does not answer"
    cause "Nothing listens at the address, a firewall drops the packets, or the server is overloaded."
    example "hopbyte links 127.0.0.1:9 --fabric torus:2x2"
    remedy "Check address and port, that the server runs, and that both sides use TLS or neither does."
}
