//! A locale in which every text equals every other of its length. A script of Redis compares texts by
//! the locale of its server, so one that relies on their order goes wrong here.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::home::output;

const NAME: &str = "equal";

const ORDER: &str = "LC_COLLATE
order_start forward
UNDEFINED IGNORE
order_end
END LC_COLLATE
";

const CHARACTERS: &str = "<code_set_name> BYTES
<escape_char> /
CHARMAP
<U0000>..<U007F> /x00
END CHARMAP
";

/// Writes it into the folder.
pub(super) fn write(folder: &Path) {
    for (name, text) in [("order", ORDER), ("characters", CHARACTERS)] {
        fs::write(folder.join(name), text).expect("a file");
    }
    // Without the other parts of a locale it warns, which it also says by its exit code.
    let make =
        "localedef --quiet --force --inputfile=order --charmap=characters ./\"$0\" || [ $? = 1 ]";
    let mut shell = Command::new("sh");
    output(shell.args(["-c", make, NAME]).current_dir(folder));
}

/// Has a server use it, whatever the locale of this process is.
pub(super) fn set(command: &mut Command, folder: &Path) {
    command.env_remove("LC_ALL").env("LC_COLLATE", NAME);
    command.env("LOCPATH", folder);
}
