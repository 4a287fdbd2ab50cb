//! What a Rust file consists of: its functions, constants and types, their statements and conditions.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::tree::{Body, Item, Kind, Parsed, Region};

pub(crate) fn parsed(text: &str, modules: &[String]) -> Result<Parsed, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut reader = Reader {
        path: modules.to_vec(),
        parsed: Parsed::default(),
    };
    reader.visit_file(&file);
    Ok(reader.parsed)
}

struct Reader {
    path: Vec<String>,
    parsed: Parsed,
}

impl Reader {
    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.path.push(name);
        visit(self);
        self.path.pop();
    }

    fn item(&mut self, name: String, bytes: Range<usize>) {
        let path = [&*self.path, &[name]].concat();
        self.parsed.items.push(Item {
            path,
            bytes,
            without: Vec::new(),
        });
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.parsed.bodies.push(Body {
            bytes: block.span().byte_range(),
            is_const: signature.constness.is_some(),
        });
    }

    fn region(&mut self, kind: Kind, of: &impl Spanned) {
        let bytes = of.span().byte_range();
        self.parsed.regions.push(Region { kind, bytes });
    }
}

/// Whether something is compiled for tests alone.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
    })
}

fn name_of(path: &syn::Path) -> String {
    path.segments
        .last()
        .map_or_else(String::new, |last| last.ident.to_string())
}

fn name_of_type(of: &syn::Type) -> String {
    match of {
        syn::Type::Path(path) => name_of(&path.path),
        syn::Type::Reference(to) => name_of_type(&to.elem),
        _ => "?".to_owned(),
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            self.within(item.ident.to_string(), |it| visit::visit_item_mod(it, item));
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if is_for_tests(&item.attrs) {
            return;
        }
        let of = name_of_type(&item.self_ty);
        let name = match &item.trait_ {
            Some((_, implemented, _)) => format!("<{of} as {}>", name_of(implemented)),
            None => of,
        };
        self.within(name, |it| visit::visit_item_impl(it, item));
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.item(item.ident.to_string(), item.span().byte_range());
        self.within(item.ident.to_string(), |it| {
            visit::visit_item_trait(it, item);
        });
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if is_for_tests(&item.attrs) {
            return;
        }
        let name = item.sig.ident.to_string();
        self.item(name.clone(), item.span().byte_range());
        self.body(&item.sig, &item.block);
        self.within(name, |it| visit::visit_item_fn(it, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if is_for_tests(&item.attrs) {
            return;
        }
        let name = item.sig.ident.to_string();
        self.item(name.clone(), item.span().byte_range());
        self.body(&item.sig, &item.block);
        self.within(name, |it| visit::visit_impl_item_fn(it, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        let name = item.sig.ident.to_string();
        self.item(name.clone(), item.span().byte_range());
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
        self.within(name, |it| visit::visit_trait_item_fn(it, item));
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.item(item.ident.to_string(), item.span().byte_range());
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.item(item.ident.to_string(), item.span().byte_range());
        visit::visit_impl_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.item(item.ident.to_string(), item.span().byte_range());
        visit::visit_item_static(self, item);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.item(item.ident.to_string(), item.span().byte_range());
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.item(item.ident.to_string(), item.span().byte_range());
    }

    fn visit_item_macro(&mut self, item: &'a syn::ItemMacro) {
        let name = match &item.ident {
            Some(name) => name.to_string(),
            None => format!("{}!", name_of(&item.mac.path)),
        };
        self.item(name, item.span().byte_range());
    }

    fn visit_stmt(&mut self, statement: &'a syn::Stmt) {
        self.region(Kind::Statement, statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_pat_ident(&mut self, pattern: &'a syn::PatIdent) {
        let name = pattern.ident.to_string();
        // One that begins with a capital is no local, but a constant.
        if !name.starts_with(char::is_uppercase) {
            let at = pattern.ident.span().byte_range().start;
            self.parsed.locals.push((at, name));
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_if(&mut self, expression: &'a syn::ExprIf) {
        self.region(Kind::Condition, &expression.cond);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'a syn::ExprWhile) {
        self.region(Kind::Condition, &expression.cond);
        visit::visit_expr_while(self, expression);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, condition)) = &arm.guard {
            self.region(Kind::Condition, condition);
        }
        visit::visit_arm(self, arm);
    }
}
